//! The status page, in a real browser, on real instances.

mod actions;
mod look;
mod moves;

use crate::support::{
    place::{Kind, Place},
    process::Exit,
    stage::Stage,
};

/// Instances with three workers that ask nobody.
async fn stage(kind: Kind) -> Stage {
    let stage = Stage::new(kind).await;
    stage.with("ATCR__CLEANUP__ENABLED", "true").with("ATCR__WEBHOOKS__ENABLED", "true")
}

/// A database that nothing was ever done on, and instances that do as little as can be.
async fn nothing(kind: Kind) -> Stage {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let (exit, text) = stage.command(&["migrate"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    stage.with("ATCR__JETSTREAM__ENABLED", "false").with("ATCR__CLEANUP__ENABLED", "true")
}
