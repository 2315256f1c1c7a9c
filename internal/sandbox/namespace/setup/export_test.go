//go:build linux && (amd64 || arm64)

package setup

// Restrict is what only these tests reach from outside.
func Restrict(p *Plan) error {
	rules, err := newRuleset(p)
	if err != nil {
		return err
	}
	return restrict(rules)
}
