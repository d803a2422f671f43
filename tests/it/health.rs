//! Which holds answer: every instance asks for itself, and tells the registry beside it.

mod asking;
pub(crate) mod stage;
