// A checker of histories (history.py) by Porcupine: is there an order of the operations, each between its invocation and
// its end, in which a queue behaves as the model does?
//
// The models: `queue`, first in, first out, for histories without faults; and `set`, in which a value is published once
// and taken once. A value whose fate is unknown may have been published, or taken, at any later time or never.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const within = 5 * time.Minute

type line struct {
	Client int    `json:"client"`
	Type   string `json:"type"`
	F      string `json:"f"`
	Value  string `json:"value"`
	TimeNs int64  `json:"time_ns"`
}

type input struct {
	f       string
	value   string
	unknown bool
}

const (
	absent = iota
	ready
	taken
)

var set = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, operation := range history {
			if in := operation.Input.(input); in.f != "empty" {
				parts[in.value] = append(parts[in.value], operation)
			}
		}
		found := [][]porcupine.Operation{}
		for _, part := range parts {
			for _, operation := range history {
				if operation.Input.(input).f == "empty" {
					part = append(part, operation)
				}
			}
			found = append(found, part)
		}
		return found
	},
	Init: func() interface{} { return absent },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		operation := in.(input)
		switch {
		case operation.f == "publish" && state == absent:
			return true, ready
		case operation.f == "take" && state == ready:
			return true, taken
		case operation.f == "empty":
			return state != ready, state
		}
		return operation.unknown, state
	},
}

var queue = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		operation, values := in.(input), state.(string)
		switch operation.f {
		case "publish":
			return true, values + operation.value + "\n"
		case "take":
			return strings.HasPrefix(values, operation.value+"\n"), strings.TrimPrefix(values, operation.value+"\n")
		}
		return values == "", values
	},
}

// read returns the operations that had or may have had an effect, and how many of them have an unknown end. After faults
// a queue may seem empty while a lost client's message is not requeued yet: `anybody` is whether each empty reply counts,
// or only the last one, of client 0.
func read(path string, anybody bool) ([]porcupine.Operation, int) {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	open, history, unknown := map[int]line{}, []porcupine.Operation{}, 0
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var one line
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			panic(err)
		}
		if one.Type == "invoke" {
			open[one.Client] = one
			continue
		}
		begun := open[one.Client]
		operation := porcupine.Operation{ClientId: one.Client, Call: begun.TimeNs, Return: one.TimeNs,
			Input: input{one.F, one.Value, one.Type == "info"}}
		switch {
		case one.Type == "fail", one.Type == "info" && one.Value == "", one.F == "empty" && !anybody && one.Client != 0:
			continue
		case one.Type == "info":
			operation.Return = math.MaxInt64
			unknown++
		}
		history = append(history, operation)
	}
	return history, unknown
}

func main() {
	name, path := os.Args[1], os.Args[2]
	model := map[string]porcupine.Model{"set": set, "queue": queue}[name]
	history, unknown := read(path, name == "queue")
	result := porcupine.CheckOperationsTimeout(model, history, within)
	fmt.Printf("%d operations, %d of them with an unknown end: %s\n", len(history), unknown, result)
	if result != porcupine.Ok {
		os.Exit(1)
	}
}
