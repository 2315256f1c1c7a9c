package stint

import (
	"regexp"
	"strings"
)

var (
	nameForm     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// CheckName returns an error unless the name of an agent, volume, or artifact consists
// of 1 to 64 of the characters a-z, 0-9, and '-', with a letter or digit at both ends.
// param is the name of the parameter in the error.
func CheckName(param, name string) *Error {
	if name == "" {
		return MissingParam(param, "A name is required: 1 to 64 of a-z, 0-9 and '-'.")
	}
	if !nameForm.MatchString(name) {
		return InvalidParam(param, "'%s' is not a valid name: use 1 to 64 of a-z, 0-9 and '-', with a letter or digit at both ends.", Excerpt(name, 128))
	}
	return nil
}

// reserved contains variables that control the sandbox, the C library and its
// dynamic loader, or a shell.
var reserved = map[string]bool{
	"LD_PRELOAD": true, "LD_LIBRARY_PATH": true, "LD_AUDIT": true, "LD_DEBUG": true,
	"LD_BIND_NOW": true, "LD_ORIGIN_PATH": true, "LD_PROFILE": true, "LD_SHOW_AUXV": true,
	"GCONV_PATH": true, "GLIBC_TUNABLES": true, "LOCPATH": true, "MALLOC_TRACE": true,
	"HOME": true, "USER": true, "LOGNAME": true, "PWD": true, "SHELL": true,
	"BASH_ENV": true, "ENV": true, "IFS": true,
}

// CheckVariable returns an error if the name of an environment variable does not match
// [A-Za-z_][A-Za-z0-9_]*, has more than 256 characters, or is reserved. Names are
// reserved if, ignoring case, they are in reserved or begin with STINT_ or LD_. param
// is the name of the parameter in the error.
func CheckVariable(param, name string) *Error {
	switch {
	case len(name) > 256 || !variableForm.MatchString(name):
		return InvalidParam(param, "'%s' is not a valid variable name: use letters, digits and '_', not starting with a digit.", Excerpt(name, 128))
	case reserved[strings.ToUpper(name)] || strings.HasPrefix(strings.ToUpper(name), "STINT_") || strings.HasPrefix(strings.ToUpper(name), "LD_"):
		return InvalidParam(param, "The variable '%s' is reserved for the sandbox and cannot be set. Choose another name.", name)
	}
	return nil
}
