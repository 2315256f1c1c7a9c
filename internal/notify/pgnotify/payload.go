package pgnotify

import (
	"errors"
	"net/url"
	"strings"
)

// channel is the channel on which all processes of a database listen.
const channel = "stint"

// Maximum sizes of a payload and of an escaped topic, in bytes. PostgreSQL refuses
// payloads of 8000 or more bytes.
const (
	payloadLimit = 7000
	wordLimit    = 6000
)

// everything is a word that stands for all topics. It differs from every escaped
// topic, because escape encodes the star.
const everything = "*"

// errEverything is returned for a payload that stands for all topics.
var errEverything = errors.New("pgnotify: wake all subscribers")

// escape encodes a topic as a word without spaces and control characters. It does not
// change the topics of package notify. A topic that is too long becomes everything.
func escape(topic string) string {
	if word := url.PathEscape(topic); len(word) <= wordLimit {
		return word
	}
	return everything
}

// encode returns payloads of at most payloadLimit bytes: the sender and the words,
// separated by spaces.
func encode(sender string, words []string) []string {
	var payloads []string
	current := sender
	for _, word := range words {
		if len(current)+1+len(word) > payloadLimit {
			payloads, current = append(payloads, current), sender
		}
		current += " " + word
	}
	return append(payloads, current)
}

// decode decodes one payload. If it stands for all topics or is invalid, the error
// is errEverything.
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
