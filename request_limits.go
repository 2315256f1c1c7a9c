package stint

import "time"

// Limits and defaults of requests. A request that exceeds a limit is refused with the
// code invalid_parameter, or request_too_large for the size of a body. Only a longer
// wait than MaxWait is not refused but shortened.
const (
	MaxBodyBytes      = 1 << 20          // bytes of a JSON body
	MaxBodyDepth      = 64               // levels of nesting in a JSON body
	MaxIdempotencyKey = 255              // bytes of an Idempotency-Key
	MaxWait           = 60 * time.Second // wait in Prefer: wait=N

	MaxDefinitionBytes = 256 << 10
	MaxPromptBytes     = 512 << 10
	MaxVariables       = 512      // of a run; the limits of secrets are lower, see package masking
	MaxVariableBytes   = 64 << 10 // bytes of the value of one variable
	MaxMetadata        = 16       // members
	MaxMetadataKey     = 64       // characters
	MaxMetadataValue   = 512      // characters
	MaxPriority        = 9
	MaxRetries         = 10

	DefaultTimeout     = 2 * time.Hour
	MinTimeout         = time.Second
	MaxTimeout         = 7 * 24 * time.Hour
	DefaultOutputBytes = 64 * MiB
	MaxOutputBytes     = 16 * GiB

	DefaultTokenDays = 90
	MaxTokenDays     = 365
	MinTokenLife     = time.Minute
	MaxTokenLife     = MaxTokenDays * 24 * time.Hour

	DefaultLimit = 20 // items of a page
	MaxLimit     = 100
)
