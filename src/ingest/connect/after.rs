//! What the end of an attempt or of a connection means for the next one: for the position, the dictionary and the host.

use tokio::time::Instant;

use super::dial::DialError;
use super::hosts::Outcome;
use super::inflate::Undecodable;
use super::meters::Meters;
use super::opening::Why;
use super::queue::{Gap, Gone};
use super::resume::{Cursor, GapReason, Plan};
use super::session::{Ended, Reason};
use super::{CursorSource, Follower, Host};
use crate::atproto::socket::liveness::Liveness;
use crate::ingest::wire::Wire;

impl<C: CursorSource> Follower<C> {
    /// A connection has ended.
    pub(super) async fn ended(
        &mut self,
        host: &Host,
        meters: &Meters,
        plan: &Plan,
        ended: &Ended,
    ) -> Result<Outcome, Reason> {
        match &ended.reason {
            Reason::Stale => {
                self.another_from = Some(Liveness::another_after(self.config.idle_limit, Instant::now()));
            }
            Reason::Undecodable(Undecodable::OtherDictionary(id)) => {
                self.dictionaries.failed(host, Some(*id))
            }
            Reason::Undecodable(_) => self.dictionaries.failed(host, None),
            Reason::Refused(refusal) => self.refused(host, meters, plan, refusal.why).await?,
            _ => {}
        }
        self.resume.ended(ended.delivered_for.is_some());
        if ended.delivered_for.is_some() {
            self.resume.accepted(host);
            if !matches!(ended.reason, Reason::Undecodable(_)) {
                self.dictionaries.worked(host);
            }
        }
        Ok(match ended.delivered_for {
            None => Outcome::Failed,
            Some(span) if span < self.config.backoff.healthy_after => Outcome::Delivered,
            Some(_) => Outcome::Healthy,
        })
    }

    /// An attempt has failed. `dictionary` is the number that was asked for.
    pub(super) async fn not_reached(
        &mut self,
        at: usize,
        meters: &Meters,
        plan: &Plan,
        dictionary: Option<u32>,
        error: &DialError,
    ) -> Result<(), Reason> {
        let DialError::Refused(answer) = error else { return Ok(()) };
        self.held[at] = answer.retry_after.map(|wait| Instant::now() + wait);
        let host = self.config.hosts[at].clone();
        match answer.why() {
            Some(why @ (Why::CursorTooOld | Why::FutureCursor | Why::UnknownDictionary)) => {
                self.refused(&host, meters, plan, why).await
            }
            // A refusal whose name was lost on the way: it can only be about what we ask for beyond the collections.
            _ if answer.status == 400 && host.wire() == Wire::V2 => {
                if dictionary.is_some() {
                    self.dictionaries.failed(&host, None);
                }
                self.refused(&host, meters, plan, Why::FutureCursor).await
            }
            _ => Ok(()),
        }
    }

    /// The host does not send what it was asked for.
    async fn refused(&mut self, host: &Host, meters: &Meters, plan: &Plan, why: Why) -> Result<(), Reason> {
        match (why, plan.cursor) {
            (Why::UnknownDictionary, _) => self.dictionaries.failed(host, None),
            (Why::CursorTooOld, Cursor::Seq(seq)) if self.resume.refused(host, seq, true) => {
                self.gap(host, meters, GapReason::OldCursor, false).await?;
            }
            (Why::FutureCursor, Cursor::Seq(seq)) => {
                meters.position_refused.set(1.0);
                if self.resume.refused(host, seq, false) {
                    self.gap(host, meters, GapReason::Recount, true).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the writer, and people, that something was left out.
    pub(super) async fn gap(
        &self,
        host: &Host,
        meters: &Meters,
        reason: GapReason,
        forget: bool,
    ) -> Result<(), Reason> {
        let said = match reason {
            GapReason::OtherWire => "the saved position is of the other wire; continuing by its time",
            GapReason::OtherHost => "the saved position is of another host; continuing by its time",
            GapReason::OldCursor => "the host does not keep events as old as the saved position",
            GapReason::Recount => {
                "the host counts anew and does not know the saved position; forgetting it and continuing by its time"
            }
        };
        tracing::warn!(host = %host.key(), reason = reason.kind(),
            "the stream may have left something out: {said}; all repositories are to be read again");
        meters.gap(reason.kind());
        let gap = Gap { host: host.key().clone(), wire: host.wire(), reason, forget };
        tokio::select! {
            biased;
            sent = self.out.gap(gap) => sent.map_err(|Gone| Reason::ConsumerGone),
            () = self.stop.cancelled() => Err(Reason::Stopped),
        }
    }
}
