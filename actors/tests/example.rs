//! The example tells its story to the end, within the ten seconds that the README promises.

#[path = "../examples/two_instances.rs"]
mod two_instances;

use std::time::{Duration, Instant};

#[test]
fn the_example_hands_over_on_shutdown_and_on_failures_and_ends_in_ten_seconds() {
    let begun = Instant::now();
    let told = two_instances::story();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let times = |text: &str| told.iter().filter(|line| line.contains(text)).count();
    assert_eq!(times("mail fails at two"), 3, "one start and two restarts: {told:#?}");
    assert_eq!(times("cooling"), 1, "{told:#?}");
    assert_eq!((times("one ended"), times("two ended"), times("three ended")), (1, 1, 1), "{told:#?}");
    assert_eq!(times("left to expire") + times("overdue"), 0, "{told:#?}");
    // Each start under a later epoch: mail had one at the beginning, and has at least the second at three.
    assert!(told.iter().any(|line| line.contains("three  mail   running  under epoch")), "{told:#?}");
}
