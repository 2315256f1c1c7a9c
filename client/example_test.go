package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// This example starts a run of the agent hello, prints its output as it is written, and
// downloads its files.
func Example() {
	ctx := context.Background()
	c, err := client.New(client.Options{URL: os.Getenv("STINT_URL"), Token: os.Getenv("STINT_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.Runs.Create(ctx, stint.NewRun{Agent: "hello", Prompt: "date | tee now.txt", ArtifactName: "now"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range c.Runs.Events(ctx, run.ID, 0) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Type == stint.EventOutput {
			var output stint.OutputData
			if err := json.Unmarshal(event.Data, &output); err != nil {
				log.Fatal(err)
			}
			fmt.Print(output.Content)
		}
	}
	artifact, err := c.Artifacts.Find(ctx, "now")
	if err != nil {
		log.Fatal(err)
	}
	archive, err := os.Create("now.tar.gz")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Artifacts.Download(ctx, artifact.ID, stint.LatestVersion, archive); err != nil {
		log.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		log.Fatal(err)
	}
}
