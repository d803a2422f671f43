//! Backfill: lists the network's repositories, reads their records, and repairs the index. The network half stands here;
//! it knows nothing of the database.
//!
//! In reading order: who has records at all (`enumerate`), what one of them holds (`fetch`), how a listing in pages comes
//! to its end (`pages`), and how hosts are asked without being pressed (`ask`, `pace`).

pub mod ask;
pub mod enumerate;
pub mod fetch;
pub mod pace;
pub mod pages;

#[cfg(test)]
mod tests;
