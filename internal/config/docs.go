package config

import (
	"fmt"
	"strings"
)

// Docs renders the settings as a Markdown table.
func Docs() string {
	var b strings.Builder
	b.WriteString("| Flag and key | Environment | Default | What it does |\n")
	b.WriteString("| --- | --- | --- | --- |\n")
	for _, s := range Settings() {
		fmt.Fprintf(&b, "| `--%s %s` | `%s` | %s | %s. |\n", s.Name, cell(s.Value), s.Env(), cell(s.Default), cell(strings.ToUpper(s.Text[:1])+s.Text[1:]))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
