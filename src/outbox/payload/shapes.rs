//! The shapes of the payloads. The registry's users read them: a field that changes its name or place breaks theirs.

use serde::Serialize;

use crate::outbox::event::Counts;

#[derive(Serialize)]
pub(super) struct PushPayload<'a> {
    pub(super) trigger: &'a str,
    pub(super) push_data: PushData<'a>,
    pub(super) repository: Repository<'a>,
    pub(super) hold: Hold<'a>,
}

#[derive(Serialize)]
pub(super) struct PushData<'a> {
    pub(super) pushed_at: String,
    pub(super) pusher: &'a str,
    pub(super) pusher_did: &'a str,
    pub(super) tag: &'a str,
    pub(super) digest: &'a str,
}

#[derive(Serialize)]
pub(super) struct Repository<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) repo_name: String,
    pub(super) repo_url: String,
    pub(super) media_type: &'a str,
    pub(super) star_count: i64,
    pub(super) pull_count: i64,
}

#[derive(Serialize)]
pub(super) struct Hold<'a> {
    pub(super) did: &'a str,
    pub(super) endpoint: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScanPayload<'a> {
    pub(super) trigger: &'a str,
    pub(super) hold_did: &'a str,
    pub(super) hold_endpoint: String,
    pub(super) manifest: Manifest<'a>,
    pub(super) scan: Scan<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Counts>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest<'a> {
    pub(super) digest: &'a str,
    pub(super) repository: &'a str,
    pub(super) tag: &'a str,
    pub(super) user_did: &'a str,
    pub(super) user_handle: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scan<'a> {
    pub(super) scanned_at: String,
    pub(super) scanner_version: &'a str,
    pub(super) vulnerabilities: Counts,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestPayload<'a> {
    pub(super) trigger: &'a str,
    pub(super) message: &'a str,
    pub(super) sent_at: String,
    pub(super) user_did: &'a str,
    pub(super) user_handle: &'a str,
}
