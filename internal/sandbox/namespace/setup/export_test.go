//go:build linux && (amd64 || arm64)

package setup

// Restrict exports the Landlock rules for tests.
func Restrict(p *Plan) error {
	rules, err := newRuleset(p)
	if err != nil {
		return err
	}
	return restrict(rules)
}
