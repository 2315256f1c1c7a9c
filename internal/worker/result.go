package worker

import (
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/jsonschema"
)

// maxResult is the longest last message that stands on a run, in bytes.
const maxResult = 256 << 10

// withResult puts the agent's last message on the ending. Where the definition
// says what it has to look like, one that does not makes the run fail.
func (j *job) withResult(end ending) ending {
	wanted := j.a.Plan.Definition.Schema()
	final := j.record.masker.Mask(end.final)
	if wanted == nil {
		if final != "" {
			short, _ := transcript.Shorten(clean(final), maxResult)
			end.result, _ = json.Marshal(short) // a string marshals
		}
		return end
	}
	if end.status != stint.Completed {
		return end
	}
	value, err := jsonschema.ParseResult(wanted, final)
	if err != nil {
		end.status, end.reason = stint.Failed, stint.ReasonExitCode
		end.message = fmt.Sprintf("The agent's last message is not what output.schema asks for: %v", err)
		return end
	}
	end.result = value
	return end
}
