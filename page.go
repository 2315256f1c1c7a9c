package stint

// Limits of a page.
const (
	DefaultLimit = 20
	MaxLimit     = 100
)

// Page is a piece of a list, and how to get the next.
type Page[T any] struct {
	Data       []T        `json:"data"`
	Pagination Pagination `json:"pagination"`
}

// Pagination tells whether more results exist; NextCursor is nil at the end.
type Pagination struct {
	HasMore    bool    `json:"hasMore"`
	NextCursor *string `json:"nextCursor"`
}
