//! Base58 with Bitcoin's alphabet, for keys: short texts, so the plain quadratic way will do.

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The bytes that a text stands for.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    // Little end first.
    let mut bytes: Vec<u8> = Vec::new();
    for digit in text.bytes() {
        let mut carry = ALPHABET.iter().position(|letter| *letter == digit)?;
        for byte in &mut bytes {
            carry += usize::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    bytes.extend(text.bytes().take_while(|digit| *digit == ALPHABET[0]).map(|_| 0));
    bytes.reverse();
    Some(bytes)
}

/// The text that stands for bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut digits: Vec<u8> = Vec::new();
    for byte in bytes {
        let mut carry = usize::from(*byte);
        for digit in &mut digits {
            carry += usize::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    digits.extend(bytes.iter().take_while(|byte| **byte == 0).map(|_| 0));
    digits.iter().rev().map(|digit| char::from(ALPHABET[usize::from(*digit)])).collect()
}
