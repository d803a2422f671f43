//! `hold_tiers`: the tiers of the managed holds, as each listed them last.

use diesel::QueryResult;

use super::chunked;
use crate::store::billing::HoldTier;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Puts these in the place of what is there, in rank order.
pub(in crate::store) async fn replace(
    session: &mut Session,
    hold: &str,
    tiers: &[HoldTier],
) -> QueryResult<()> {
    let delete = Statement::new("DELETE FROM hold_tiers WHERE hold_did = ?");
    session.execute(delete.bind(hold)).await?;
    let ranked: Vec<(i64, &HoldTier)> = (0..).zip(tiers).collect();
    for chunk in chunked(&ranked, |(rank, tier)| {
        row![hold, *rank, &tier.name, tier.quota_bytes, &tier.quota_formatted, tier.scan_on_push]
    }) {
        let insert = Statement::new(
            "WITH new (hold_did, of_rank, name, bytes, formatted, scan) AS ({rows})
             INSERT INTO hold_tiers
                 (hold_did, rank, name, quota_bytes, quota_formatted, scan_on_push, fetched_at)
             SELECT hold_did, of_rank, name, bytes, formatted, scan, {now_us} FROM new",
        );
        session.execute(insert.rows(chunk)).await?;
    }
    Ok(())
}
