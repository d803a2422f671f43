//! Every statement, a file per table or small family, a function per statement.

pub(super) mod cursors;
pub(super) mod fence;
pub(super) mod lease_instances;
pub(super) mod lease_list;
pub(super) mod leases;
pub(super) mod users;
