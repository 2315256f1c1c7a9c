package auth

import (
	"time"

	"github.com/stint-dev/stint"
)

// LinkLifetime is how long a download link is valid.
const LinkLifetime = time.Hour

// Link is the signed content of a download link.
type Link struct {
	OrgID     string            `json:"o"`
	Kind      stint.FileSetKind `json:"k"`
	FileSetID string            `json:"t"`
	VersionID string            `json:"v"`
	Format    string            `json:"f,omitempty"` // of the archive; empty for a tar.gz
	Expires   int64             `json:"e"`           // Unix seconds; set by SignLink
}

// SignLink returns the text of a link that is valid for LinkLifetime.
func (s *Service) SignLink(l Link) (string, error) {
	l.Expires = s.now().Add(LinkLifetime).Unix()
	return signJSON(s.keys.link, l)
}

// The errors of download links.
var (
	errLinkInvalid = &stint.Error{
		Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
		Message: "This download link is invalid. Request a new one.",
	}
	errLinkExpired = &stint.Error{
		Kind: stint.KindGone, Code: stint.CodeLinkExpired,
		Message: "This download link has expired. Request a new one.",
	}
)

// VerifyLink returns the content of a link. If the link was modified or has expired, it
// returns an error for users.
func (s *Service) VerifyLink(text string) (Link, error) {
	var l Link
	if !verifyJSON(s.keys.link, text, &l) {
		return l, errLinkInvalid
	}
	if s.now().Unix() >= l.Expires {
		return l, errLinkExpired
	}
	return l, nil
}
