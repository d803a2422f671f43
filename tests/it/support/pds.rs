//! Writing to a PDS and reading it back, as a registry's users do: plain XRPC, blocking, panicking on refusal.

use serde_json::{Value, json};

use super::http;

/// The most that a PDS gives in one answer of listRecords.
const PAGE: usize = 100;
/// More pages than any test writes: a PDS that never ends its list fails the test instead of hanging it.
const PAGES_MAX: usize = 1_000;

/// `admin` with the password of `pds.mjs`.
const ADMIN: &str = "Basic YWRtaW46YWRtaW4tcGFzcw==";

pub(crate) struct Pds {
    url: String,
}

/// An account and the right to write to it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) did: String,
    pub(crate) handle: String,
    token: String,
}

/// A record as listRecords shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    pub(crate) uri: String,
    pub(crate) cid: String,
    pub(crate) value: Value,
}

impl Pds {
    pub(crate) fn new(url: &str) -> Pds {
        Pds { url: url.to_owned() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Makes the account `NAME.test`.
    pub(crate) fn create_account(&self, name: &str) -> Account {
        let handle = format!("{name}.test");
        let email = format!("{name}@example.com");
        let body = json!({ "handle": handle, "email": email, "password": password(name) });
        Account::of(&self.post("com.atproto.server.createAccount", None, body))
    }

    /// The right to write to an account that exists: a seeded one, or one whose token has run out.
    pub(crate) fn log_in(&self, name: &str) -> Account {
        let body = json!({ "identifier": format!("{name}.test"), "password": password(name) });
        Account::of(&self.post("com.atproto.server.createSession", None, body))
    }

    /// Writes a record, new or changed, and gives its CID. The PDS does not know our lexicons and does not check them.
    pub(crate) fn put_record(
        &self,
        account: &Account,
        collection: &str,
        rkey: &str,
        mut record: Value,
    ) -> String {
        record["$type"] = json!(collection);
        let body = json!({
            "repo": account.did, "collection": collection, "rkey": rkey, "validate": false, "record": record,
        });
        let answer = self.post("com.atproto.repo.putRecord", Some(account), body);
        answer["cid"].as_str().unwrap().to_owned()
    }

    pub(crate) fn delete_record(&self, account: &Account, collection: &str, rkey: &str) {
        let body = json!({ "repo": account.did, "collection": collection, "rkey": rkey });
        self.post("com.atproto.repo.deleteRecord", Some(account), body);
    }

    /// All records of a collection, whatever the number of pages.
    pub(crate) fn list_records(&self, did: &str, collection: &str) -> Vec<Listed> {
        let first = format!("com.atproto.repo.listRecords?repo={did}&collection={collection}&limit={PAGE}");
        let mut records = Vec::new();
        let mut cursor = String::new();
        for _ in 0..PAGES_MAX {
            let page = self.call("GET", &format!("{first}{cursor}"), None, "");
            records.extend(page["records"].as_array().unwrap().iter().map(Listed::of));
            match page["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return records,
            }
        }
        panic!("{collection} of {did} has more than {PAGES_MAX} pages")
    }

    /// Gives the account the handle `NAME.test`.
    pub(crate) fn update_handle(&self, account: &Account, name: &str) {
        let body = json!({ "handle": format!("{name}.test") });
        self.post("com.atproto.identity.updateHandle", Some(account), body);
    }

    pub(crate) fn deactivate_account(&self, account: &Account) {
        self.post("com.atproto.server.deactivateAccount", Some(account), json!({}));
    }

    pub(crate) fn activate_account(&self, account: &Account) {
        self.post("com.atproto.server.activateAccount", Some(account), Value::Null);
    }

    /// Deletes the account for good, as the PDS's administrator: its owner would need a letter.
    pub(crate) fn delete_account(&self, account: &Account) {
        let headers = [("Authorization", ADMIN), ("Content-Type", "application/json")];
        let url = format!("{}/xrpc/com.atproto.admin.deleteAccount", self.url);
        let response =
            http::request("POST", &url, &headers, &json!({ "did": account.did }).to_string()).unwrap();
        assert_eq!(response.status, 200, "{}: {}", account.did, response.body);
    }

    fn post(&self, method: &str, account: Option<&Account>, body: Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.call("POST", method, account, &body)
    }

    fn call(&self, verb: &str, method: &str, account: Option<&Account>, body: &str) -> Value {
        let token = account.map(|account| format!("Bearer {}", account.token));
        let mut headers = Vec::new();
        headers.extend(token.as_deref().map(|token| ("Authorization", token)));
        headers.extend((!body.is_empty()).then_some(("Content-Type", "application/json")));
        let response = http::request(verb, &format!("{}/xrpc/{method}", self.url), &headers, body).unwrap();
        assert_eq!(response.status, 200, "{verb} {method} {body}: {}", response.body);
        serde_json::from_str(&response.body).unwrap_or_default()
    }
}

impl Account {
    fn of(answer: &Value) -> Account {
        let text = |key: &str| answer[key].as_str().unwrap().to_owned();
        Account { did: text("did"), handle: text("handle"), token: text("accessJwt") }
    }
}

impl Listed {
    fn of(record: &Value) -> Listed {
        let text = |key: &str| record[key].as_str().unwrap().to_owned();
        Listed { uri: text("uri"), cid: text("cid"), value: record["value"].clone() }
    }
}

/// As `seed.mjs` chooses it.
fn password(name: &str) -> String {
    format!("{name}-pass")
}
