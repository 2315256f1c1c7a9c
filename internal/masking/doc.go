// Package masking removes secrets from text.
//
// Two kinds of masker exist. All output of an agent passes through a masker that
// NewMasker returns. This masker replaces each occurrence of a secret by *** before the
// output is stored. The egress proxy and the model proxy pass responses through a masker
// that NewRedactor returns, called a redactor. A redactor replaces a secret by its own
// replacement, such as its placeholder.
//
// # Occurrences
//
// A masker finds each secret of at least four characters (for a redactor: four
// bytes) in these forms:
//
//   - unchanged;
//   - in base64, standard and URL-safe, with and without padding, at each of the
//     three alignments within longer encoded text. The first and the last character
//     of such an occurrence can also depend on the neighbouring bytes; they are not
//     replaced, and reveal at most four bits each. If a tool wraps a long secret in
//     base64 (at 76 or 64 columns) or hexadecimal (at 60 columns, as xxd does), each
//     line is found. A redactor finds base64 only of secrets of at least eight bytes,
//     because shorter sequences occur in binary downloads by chance;
//   - in hexadecimal, all lower or all upper case;
//   - escaped for a URL as common libraries do, with lower or upper case digits, and
//     a space as + or %20;
//   - escaped for JSON as common libraries do, once or twice;
//   - without surrounding white space, and with line ends as \n or \r\n;
//   - each line of at least eight characters of a secret with several lines, without
//     indentation.
//
// A masker prevents accidents. A program that intends to reveal a secret can encode
// the secret in other ways.
//
// # Replacement
//
// All occurrences are found, including those that overlap. Overlapping occurrences
// are replaced together, once. A redactor inserts the replacement of the occurrence
// that begins first, and of the longest if several begin there, in the same encoding
// as the occurrence. In base64 and hexadecimal the replacement has the same length as
// the occurrence, so that the text around it can still be decoded. A masker of
// NewMasker also replaces adjacent occurrences together, by a single ***. The result
// does not depend on how the text is split into writes.
package masking
