// Package masking removes secrets from output.
//
// All output of a sandbox passes a Masker, which replaces each occurrence of
// a secret by *** before anything is stored.
//
// # What a masker finds
//
// Every secret of at least four characters, as it is and
//
//   - in base64, standard and URL-safe, padded or not, at whichever of the
//     three alignments it lies within longer encoded text. There the first and
//     last character can depend on the neighbouring bytes as well; they stay
//     and tell at most four bits each. The lines in which base64 (76 or 64
//     columns) and xxd (60) wrap a long secret are found one by one;
//   - in hexadecimal, all lower or all upper case;
//   - escaped for a URL as the usual libraries do it, percent signs with lower
//     or upper case digits, a space as + or %20;
//   - escaped for JSON as the usual libraries do it, also twice;
//   - without the white space around it, and with its line ends as \n or \r\n;
//   - of several lines, each line of at least eight characters, without its
//     indentation.
//
// A program that wants to tell a secret can always spell it in a way that
// nobody foresaw; a masker is against accidents.
//
// # What stands for a match
//
// All occurrences of all spellings are found, also those that overlap.
// Occurrences that overlap or touch are one, and each such stretch becomes
// one ***. The result does not depend on how the text is cut into writes.
package masking
