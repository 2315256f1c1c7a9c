// Package masking removes secrets from text.
//
// There are two kinds of masker with one list of encodings and one matcher. All
// output of a sandbox passes a masker of NewMasker, which replaces each
// occurrence of a secret by *** before anything is stored. The egress proxy
// passes responses through a masker of NewRedactor, which replaces a secret by
// its placeholder.
//
// # Occurrences
//
// A masker finds each secret of at least four characters (for a redactor: four
// bytes) in these forms:
//
//   - unchanged;
//   - in base64, standard and URL-safe, with and without padding, at each of the
//     three alignments within longer encoded text. There the first and last
//     character can depend on the neighbouring bytes as well; they remain and
//     reveal at most four bits each. If base64 (76 or 64 columns) or xxd (60)
//     wraps a long secret, each line is found. A redactor looks for base64 of
//     secrets of at least eight bytes only, because shorter sequences occur in
//     binary downloads by chance;
//   - in hexadecimal, all lower or all upper case;
//   - escaped for a URL like common libraries do, percent signs with lower or
//     upper case digits, a space as + or %20;
//   - escaped for JSON like common libraries do, also twice;
//   - without the white space around it, and with line ends as \n or \r\n;
//   - of several lines, each line of at least eight characters, without its
//     indentation.
//
// A program that intends to reveal a secret can encode it in other ways; a masker
// prevents accidents.
//
// # Replacement
//
// All occurrences are found, also those that overlap. Overlapping occurrences
// are replaced once. A redactor uses the replacement of the first one, or of the
// longest of those that begin first, in the same encoding; in base64 and
// hexadecimal it has the same length, so that the text around it still decodes.
// With ***, occurrences that touch are replaced once as well. The result does not
// depend on how the text is split into writes.
package masking
