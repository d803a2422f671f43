//! The `billing` worker on both databases: what Stripe says becomes ranks, ranks become tiers at holds, and whatever goes wrong
//! on the way changes nothing.

mod errands;
mod holds;
mod peers;
mod processes;
mod refused;
mod stage;
mod stripe;

pub(crate) use processes::TIERS;
