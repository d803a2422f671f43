//! TXT records of DNS.

use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;
use tokio::time::timeout;

/// Over all attempts. A name server that takes longer is as good as silent; half would give up on slow but honest ones.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Looks up TXT records.
#[async_trait]
pub trait TxtLookup: Send + Sync {
    /// The texts at `name` (absolute, with its final dot); none if there are none. An error says why it is not known.
    async fn txt(&self, name: &str) -> Result<Vec<String>, String>;
}

/// DNS as this machine is set up for it.
pub struct Dns(TokioResolver);

impl Dns {
    /// Reads the machine's settings. An error names what is wrong with them.
    pub fn new() -> Result<Self, String> {
        let mut builder = TokioResolver::builder_tokio().map_err(|error| error.to_string())?;
        // An answer from before an identity event would undo it.
        builder.options_mut().cache_size = 0;
        Ok(Self(builder.build().map_err(|error| error.to_string())?))
    }
}

#[async_trait]
impl TxtLookup for Dns {
    async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        let looked_up = timeout(TIMEOUT, self.0.txt_lookup(name)).await;
        match looked_up.map_err(|_| "dns did not answer in time".to_owned())? {
            Ok(lookup) => Ok(lookup.answers().iter().filter_map(|record| text(&record.data)).collect()),
            // Said by the name's own server: no such name, or nothing of the kind there.
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(format!("dns: {error}")),
        }
    }
}

/// A text is sent in pieces of at most 255 bytes, and means their concatenation.
fn text(data: &RData) -> Option<String> {
    let RData::TXT(txt) = data else { return None };
    String::from_utf8(txt.txt_data.concat()).ok()
}
