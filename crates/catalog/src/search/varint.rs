//! Small numbers in few bytes: seven bits in each byte, the lowest first.

/// Appends a number.
pub(super) fn encode(mut number: u32, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Returns the number of bytes of an encoded number.
pub(super) fn len(number: u32) -> usize {
    (32 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Returns encoded numbers.
pub(super) fn decode(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let mut bytes = bytes.iter();
    std::iter::from_fn(move || {
        let first = *bytes.next()?;
        let mut number = u32::from(first & 0x7F);
        let (mut more, mut shift) = (first >= 0x80, 7);
        while more {
            let byte = *bytes.next()?;
            number |= u32::from(byte & 0x7F) << shift;
            (more, shift) = (byte >= 0x80, shift + 7);
        }
        Some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_encoding() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, 1 << 21, u32::MAX - 1, u32::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            let before = bytes.len();
            encode(number, &mut bytes);
            assert_eq!(bytes.len() - before, len(number), "{number}");
        }
        assert_eq!(decode(&bytes).collect::<Vec<_>>(), numbers);
    }
}
