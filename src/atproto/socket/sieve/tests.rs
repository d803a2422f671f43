//! Bytes in, bytes out: no socket.

use proptest::prelude::*;

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 101 Switching\r\nA: b\r\n\r\n";

fn frame(first: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![first];
    match size {
        0..126 => bytes.push(size as u8),
        126..65_536 => {
            bytes.push(126);
            bytes.extend((size as u16).to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend((size as u64).to_be_bytes());
        }
    }
    bytes.extend(std::iter::repeat_n(b'x', size));
    bytes
}

fn seen(limit: u64, chunks: &[&[u8]]) -> Vec<u8> {
    let mut rewrite = Rewrite::new(limit);
    let mut out = Vec::new();
    rewrite.pass(ANSWER, &mut out);
    for chunk in chunks {
        rewrite.pass(chunk, &mut out);
    }
    out.split_off(ANSWER.len())
}

#[test]
fn text_becomes_binary_and_all_else_passes_unchanged() {
    assert_eq!(seen(100_000, &[&frame(0x81, 3)]), frame(0x82, 3));
    assert_eq!(
        seen(100_000, &[&frame(0x01, 300), &frame(0x80, 70_000)]),
        [frame(0x02, 300), frame(0x80, 70_000)].concat()
    );
    for other in [frame(0x82, 200), frame(0x89, 4), frame(0x88, 2), frame(0xc2, 5), frame(0x83, 5)] {
        assert_eq!(seen(100_000, &[&other]), other);
    }
    let masked = [vec![0x81, 0x83, 1, 2, 3, 4], b"abc".to_vec(), frame(0x81, 3)].concat();
    assert_eq!(seen(100_000, &[&masked]), masked);
}

#[test]
fn the_body_of_a_refusal_passes_unchanged() {
    let refusal =
        b"HTTP/1.1 400 Bad Request\r\nA: b\r\n\r\n{\"error\":\"CursorTooOld\",\"message\":\"aaaa\"}";
    let mut rewrite = Rewrite::new(3);
    let mut out = Vec::new();
    refusal.chunks(7).for_each(|chunk| rewrite.pass(chunk, &mut out));
    assert_eq!(out, refusal);
}

#[test]
fn a_message_over_the_limit_arrives_empty_and_the_next_one_whole() {
    assert_eq!(
        seen(200, &[&frame(0x81, 201), &frame(0x81, 200)]),
        [frame(0x82, 0), frame(0x82, 200)].concat()
    );
    assert_eq!(
        seen(200, &[&frame(0x81, 70_000), &frame(0x89, 4)]),
        [frame(0x82, 0), frame(0x89, 4)].concat()
    );
}

#[test]
fn a_message_in_pieces_is_cut_where_it_goes_over_the_limit() {
    let sent = [frame(0x01, 150), frame(0x89, 100), frame(0x00, 51), frame(0x80, 50), frame(0x81, 200)];
    let expected = [frame(0x02, 150), frame(0x89, 100), frame(0x00, 0), frame(0x80, 50), frame(0x82, 200)];
    assert_eq!(seen(200, &[&sent.concat()]), expected.concat());
}

proptest! {
    #[test]
    fn what_is_seen_does_not_depend_on_how_it_is_cut(
        frames in prop::collection::vec((any::<u8>(), 0_usize..300), 1..8), step in 1_usize..50,
    ) {
        let sent: Vec<u8> = frames.iter().flat_map(|&(first, size)| frame(first, size)).collect();
        let pieces: Vec<_> = sent.chunks(step).collect();
        prop_assert_eq!(seen(200, &pieces), seen(200, &[&sent]));
    }

    #[test]
    fn no_bytes_make_it_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(seen(200, &[&bytes]).len() <= bytes.len());
    }
}
