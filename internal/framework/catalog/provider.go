package catalog

import (
	"strings"

	"github.com/stint-dev/stint"
)

// Default base URLs of providers.
const (
	AnthropicURL = "https://api.anthropic.com"
	OpenAIURL    = "https://api.openai.com/v1"
)

// ProviderTypes returns the valid values of 'provider.type'.
func ProviderTypes() []string {
	return []string{stint.ProviderAnthropic, stint.ProviderResponses, stint.ProviderChat, stint.ProviderOffline}
}

// ProviderType returns the type of the definition's provider. If the provider has
// no type, it returns the only type that the framework accepts. It returns "" if
// the definition has no provider.
func ProviderType(d *stint.Definition) string {
	if d.Provider == nil {
		return ""
	}
	if d.Provider.Type != "" {
		return d.Provider.Type
	}
	f, _ := Find(d.Framework)
	return f.ProviderType
}

// ModelURL returns the base URL of the provider's API without a final slash. It
// returns "" if the definition has no provider or the offline provider.
func ModelURL(d *stint.Definition) string {
	switch kind := ProviderType(d); {
	case kind == "" || kind == stint.ProviderOffline:
		return ""
	case d.Provider.BaseURL != "":
		return strings.TrimRight(d.Provider.BaseURL, "/")
	case kind == stint.ProviderAnthropic:
		return AnthropicURL
	}
	return OpenAIURL
}

// CheckProvider returns an error if the type of the definition's provider is not
// f.ProviderType. It is called only for frameworks that accept a single type.
func (f Framework) CheckProvider(d *stint.Definition) error {
	if t := ProviderType(d); t != "" && t != f.ProviderType {
		return stint.InvalidParam("provider.type", "The framework '%s' needs a provider of type '%s', not '%s'. Leave 'provider.type' out, or choose another framework.", f.Name, f.ProviderType, t)
	}
	return nil
}
