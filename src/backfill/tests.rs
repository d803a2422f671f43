//! The network half against localnet.
