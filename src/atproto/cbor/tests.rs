//! What is read, written and refused.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn the_examples_of_the_standard_are_read_and_written_back() {
    for (text, expected) in [
        ("00", Value::Int(0)),
        ("17", Value::Int(23)),
        ("1818", Value::Int(24)),
        ("1903e8", Value::Int(1_000)),
        ("1a000f4240", Value::Int(1_000_000)),
        ("1b000000e8d4a51000", Value::Int(1_000_000_000_000)),
        ("20", Value::Int(-1)),
        ("3903e7", Value::Int(-1_000)),
        ("3b7fffffffffffffff", Value::Int(i64::MIN)),
        ("f5", Value::Bool(true)),
        ("f6", Value::Null),
        ("fb3ff199999999999a", Value::Float(1.1)),
        ("43010203", Value::Bytes(vec![1, 2, 3])),
        ("62c3bc", Value::Text("ü".into())),
        ("820102", Value::List(vec![Value::Int(1), Value::Int(2)])),
        ("a1616101", Value::Map(vec![("a".into(), Value::Int(1))])),
        ("d82a420001", Value::Link(vec![0, 1])),
    ] {
        let bytes = hex(text);
        assert_eq!(read(&bytes), Ok((expected.clone(), &[][..])), "{text}");
        let mut written = Vec::new();
        write(&expected, &mut written);
        assert_eq!(written, bytes, "{text}");
    }
}

#[test]
fn what_has_no_place_in_it_is_refused() {
    let deep = "81".repeat(100) + "00";
    for text in [
        "",
        "18",
        "19ff",
        "61",
        "62c3",
        "61ff",
        "9f01ff",
        "bf616101ff",
        "5f4101ff",
        "a10101",
        "a2616101616102",
        "c100",
        "d82a6161",
        "f7",
        "f97e00",
        "1bffffffffffffffff",
        "5bffffffffffffffff",
        "9bffffffffffffffff",
        &deep,
    ] {
        assert!(read(&hex(text)).is_err(), "{text} was accepted");
    }
}

#[test]
fn what_follows_a_value_is_given_back() {
    assert_eq!(read(&hex("0102")), Ok((Value::Int(1), &[2][..])));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_what_it_reads_it_writes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((value, _)) = read(&bytes) {
            let mut written = Vec::new();
            write(&value, &mut written);
            let again = read(&written).map(|(value, rest)| (format!("{value:?}"), rest.len()));
            prop_assert_eq!(again, Ok((format!("{value:?}"), 0)));
        }
    }
}
