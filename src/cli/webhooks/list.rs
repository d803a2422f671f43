//! How webhooks are listed. Secrets are in no list.

use std::io::Write;

use crate::app::Exit;
use crate::store::webhooks::WebhookView;

pub(super) fn print(webhooks: &[WebhookView], json: bool) -> Exit {
    crate::cli::print(|out| {
        if json {
            serde_json::to_writer_pretty(&mut *out, webhooks)?;
            return writeln!(out);
        }
        webhooks.iter().try_for_each(|webhook| write(out, webhook))
    })
}

fn write(out: &mut dyn Write, webhook: &WebhookView) -> std::io::Result<()> {
    let WebhookView { id, user, url, waiting, dropped, .. } = webhook;
    let who = webhook.handle.as_ref().unwrap_or(user);
    writeln!(out, "{id}  {who}  {}  {url}", webhook.triggers.join(","))?;
    let answer = match (&webhook.last_error, webhook.last_status) {
        (Some(error), _) => error.clone(),
        (None, Some(status)) => format!("answered {status}"),
        (None, None) => "never tried".to_owned(),
    };
    let at = webhook.last_attempt_at.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
    write!(out, "    {answer}{at}; {waiting} waiting")?;
    if *dropped > 0 {
        write!(out, ", {dropped} dropped")?;
    }
    writeln!(out)?;
    if let Some(at) = &webhook.disabled_at {
        let reason = webhook.disabled_reason.as_deref().unwrap_or("no reason is known");
        writeln!(out, "    disabled since {at}: {reason}")?;
    } else if let Some(since) = &webhook.failing_since {
        writeln!(out, "    failing since {since}")?;
    }
    Ok(())
}
