//go:build linux && (amd64 || arm64)

package setup

// Restrict applies the Landlock rules of the plan to the calling thread.
func Restrict(p *Plan) error {
	rules, err := newRuleset(p)
	if err != nil {
		return err
	}
	return restrict(rules)
}
