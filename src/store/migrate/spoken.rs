//! The parts of migrations that each database says in its own words.

use diesel::backend::Backend;
use diesel::connection::BoxableConnection;
use diesel::migration::{Migration, MigrationMetadata, MigrationName, Result};

use crate::store::statement::Dialect;

/// A migration by the end of its name, and what follows its `up.sql`. What its `down.sql` undoes is the same everywhere.
const SPOKEN: [(&str, &str); 1] =
    [("_labels", include_str!("../../../migrations/2026-01-01-000005_labels/views.sql"))];

/// The migration with the part that its database says in its own words, if it has one. Both run in one transaction.
pub(super) fn complete<DB: Backend + 'static>(
    migration: Box<dyn Migration<DB>>,
    dialect: &Dialect,
) -> Box<dyn Migration<DB>> {
    let name = migration.name().to_string();
    match SPOKEN.iter().find(|(end, _)| name.ends_with(end)) {
        None => migration,
        Some((_, text)) => Box::new(Spoken { migration, text: dialect.said(text) }),
    }
}

struct Spoken<DB: Backend> {
    migration: Box<dyn Migration<DB>>,
    text: String,
}

impl<DB: Backend> Migration<DB> for Spoken<DB> {
    fn run(&self, connection: &mut dyn BoxableConnection<DB>) -> Result<()> {
        self.migration.run(connection)?;
        Ok(connection.batch_execute(&self.text)?)
    }

    fn revert(&self, connection: &mut dyn BoxableConnection<DB>) -> Result<()> {
        self.migration.revert(connection)
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        self.migration.metadata()
    }

    fn name(&self) -> &dyn MigrationName {
        self.migration.name()
    }
}
