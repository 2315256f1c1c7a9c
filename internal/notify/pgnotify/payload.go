package pgnotify

import (
	"errors"
	"net/url"
	"strings"
)

// channel is what all processes on one database listen to.
const channel = "stint"

// payloadLimit bounds a payload, in bytes; the server takes less than 8000.
const payloadLimit = 7000

// everything stands for all topics, where naming them would take too much. It
// cannot be a topic's own spelling, which escapes the star.
const everything = "*"

// errEverything says that a payload names no topics and everybody must look.
var errEverything = errors.New("pgnotify: wake everybody")

// spell writes a topic without spaces or control characters; the topics that
// we use stay as they are.
func spell(topic string) string { return url.PathEscape(topic) }

// encode packs topics into payloads of at most payloadLimit bytes: the sender
// and the topics, each after a space.
func encode(sender string, topics []string) []string {
	var payloads []string
	current := sender
	for _, topic := range topics {
		word := spell(topic)
		if len(sender)+1+len(word) > payloadLimit {
			return []string{sender + " " + everything}
		}
		if len(current)+1+len(word) > payloadLimit {
			payloads, current = append(payloads, current), sender
		}
		current += " " + word
	}
	return append(payloads, current)
}

// decode unpacks one payload, or gives errEverything also for one that makes
// no sense.
func decode(payload string) (sender string, topics []string, err error) {
	words := strings.Split(payload, " ")
	for _, word := range words[1:] {
		topic, err := url.PathUnescape(word)
		if err != nil || word == everything {
			return words[0], nil, errEverything
		}
		topics = append(topics, topic)
	}
	return words[0], topics, nil
}
