package format

// CombineCRC returns the CRC-32 (IEEE) of a followed by b from the CRC of each and
// the length of b: crc(a)·x^(8·length) + crc(b) over GF(2)[x] modulo the CRC's
// polynomial. The highest bit of a polynomial is the coefficient of x^0.
func CombineCRC(a, b uint32, lengthB int64) uint32 {
	power := uint32(1) << 31 // x^0
	for i := 3; lengthB > 0; i++ {
		if lengthB&1 == 1 {
			power = multiply(power, squares[i%len(squares)])
		}
		lengthB >>= 1
	}
	return multiply(a, power) ^ b
}

// squares[i] is x^(2^i). The sequence repeats after 32 steps: the powers of x form
// a group of order 2^32-1, so x^(2^32) is x again.
var squares = func() (s [32]uint32) {
	s[0] = 1 << 30 // x
	for i := 1; i < len(s); i++ {
		s[i] = multiply(s[i-1], s[i-1])
	}
	return s
}()

func multiply(a, b uint32) (product uint32) {
	const polynomial = 0xedb88320
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= polynomial
		}
	}
	return product
}
