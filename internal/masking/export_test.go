package masking

// Spellings lets the tests compare with a masker that knows nothing clever.
var Spellings = spellings
