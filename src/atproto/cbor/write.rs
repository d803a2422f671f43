//! Values into bytes, in the one form that they have.

use super::{LINK, Value};

/// Writes a value in the one form that it has. The keys of a map have to come in their order.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Int(int) if *int >= 0 => head(0, int.unsigned_abs(), out),
        Value::Int(int) => head(1, int.unsigned_abs() - 1, out),
        Value::Bytes(bytes) => {
            head(2, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::Text(text) => {
            head(3, text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::List(list) => {
            head(4, list.len() as u64, out);
            list.iter().for_each(|value| write(value, out));
        }
        Value::Map(pairs) => {
            head(5, pairs.len() as u64, out);
            for (key, value) in pairs {
                head(3, key.len() as u64, out);
                out.extend_from_slice(key.as_bytes());
                write(value, out);
            }
        }
        Value::Link(bytes) => {
            head(6, LINK, out);
            head(2, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::Bool(false) => out.push(0xf4),
        Value::Bool(true) => out.push(0xf5),
        Value::Null => out.push(0xf6),
        Value::Float(float) => {
            out.push(0xfb);
            out.extend_from_slice(&float.to_be_bytes());
        }
    }
}

fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match argument {
        0..24 => out.push(major | argument as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}
