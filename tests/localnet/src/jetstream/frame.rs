//! WebSocket frames (RFC 6455 section 5) as a server writes and reads them. Fragmented client messages are refused:
//! no client of Jetstream sends them.

pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// The real server's limit for a client's message.
const CLIENT_BYTES_MAX: u64 = 10_000_000;

/// The client broke the protocol, or a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Appends the head of an unfragmented, unmasked frame.
pub(crate) fn push_head(out: &mut Vec<u8>, opcode: u8, length: usize) {
    out.push(0x80 | opcode);
    match length {
        0..=125 => out.push(length as u8),
        126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Appends a frame.
pub(crate) fn push(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    push_head(out, opcode, payload.len());
    out.extend_from_slice(payload);
}

/// Takes one whole masked frame from the front of the buffer: opcode and payload.
pub(crate) fn take(buffer: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, Broken> {
    let [first, second, ..] = buffer[..] else { return Ok(None) };
    if first & 0x80 == 0 || second & 0x80 == 0 {
        return Err(Broken);
    }
    let (length, at) = match second & 0x7f {
        126 if buffer.len() < 4 => return Ok(None),
        126 => (u64::from(u16::from_be_bytes([buffer[2], buffer[3]])), 4),
        127 => match buffer.get(2..10).and_then(|b| b.try_into().ok()) {
            Some(bytes) => (u64::from_be_bytes(bytes), 10),
            None => return Ok(None),
        },
        short => (u64::from(short), 2),
    };
    if length > CLIENT_BYTES_MAX {
        return Err(Broken);
    }
    let end = at + 4 + length as usize;
    if buffer.len() < end {
        return Ok(None);
    }
    let mask: Vec<u8> = buffer[at..at + 4].to_vec();
    let payload = buffer[at + 4..end].iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m).collect();
    buffer.drain(..end);
    Ok(Some((first & 0x0f, payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_frame_is_taken_only_when_whole() {
        // RFC 6455 section 5.7: a masked text message that contains "Hello".
        let whole = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        for cut in 0..whole.len() {
            assert_eq!(take(&mut whole[..cut].to_vec()), Ok(None));
        }
        let mut buffer = [&whole[..], &[0x89]].concat();
        assert_eq!(take(&mut buffer), Ok(Some((TEXT, b"Hello".to_vec()))));
        assert_eq!(buffer, [0x89]);
    }

    #[test]
    fn unmasked_and_oversized_frames_are_refused() {
        assert_eq!(take(&mut vec![0x81, 0x05, b'H']), Err(Broken));
        let mut huge = vec![0x81, 0xff];
        huge.extend_from_slice(&10_000_001_u64.to_be_bytes());
        assert_eq!(take(&mut huge), Err(Broken));
    }
}
