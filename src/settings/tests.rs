//! The settings: what is read, what is refused, and what is said.

#![allow(clippy::unwrap_used)]

mod any_input;
mod layered;
mod refused;
mod shown;

use std::io::Write;

use tempfile::NamedTempFile;

use super::*;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn env(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let file = file(text);
    Settings::load(Some(file.path()), env(variables))
}

fn message(text: &str, variables: &[(&str, &str)]) -> String {
    match load(text, variables) {
        Ok(_) => panic!("accepted: {text:?} {variables:?}"),
        Err(error) => error.to_string(),
    }
}
