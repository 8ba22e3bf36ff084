// Checks recorded histories for linearizability with porcupine.
//
// Standard input: one JSON document, see `request`. Standard output: one JSON document, see `verdict`.
// A history is about a group of registers that can be written and read alone or together. Operations
// whose outcome is unknown are open until the end of the history: they may take effect at any time
// after their call, or never.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Registers of one group. The empty text is a register that was never written.
type registers [4]string

type operation struct {
	Client int            `json:"client"`
	Write  map[int]string `json:"write"`
	Read   map[int]string `json:"read"`
	Call   int64          `json:"call"`
	Return int64          `json:"return"`
	Open   bool           `json:"open"`
	Node   int            `json:"node"`
}

type fault struct {
	Name  string `json:"name"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
}

type history struct {
	Name       string      `json:"name"`
	Operations []operation `json:"operations"`
	Faults     []fault     `json:"faults"`
}

type request struct {
	Histories []history `json:"histories"`
	Pictures  string    `json:"pictures"`
	TimeoutMs int       `json:"timeoutMs"`
}

// Result is "Ok", "Illegal", or "Unknown" when the time was up.
type verdict struct {
	Name    string `json:"name"`
	Result  string `json:"result"`
	Picture string `json:"picture"`
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return registers{} },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			now, what := state.(registers), input.(operation)
			for register, value := range what.Write {
				now[register] = value
			}
			for register, value := range what.Read {
				if now[register] != value {
					return false, state
				}
			}
			return true, now
		},
		DescribeOperation: func(input, output interface{}) string {
			return describe(input.(operation))
		},
		DescribeState: func(state interface{}) string {
			return fmt.Sprintf("%q", state.(registers))
		},
	}
}

func describe(what operation) string {
	var parts []string
	for register := 0; register < len(registers{}); register++ {
		if value, ok := what.Write[register]; ok {
			parts = append(parts, fmt.Sprintf("r%d := %q", register, value))
		}
		if value, ok := what.Read[register]; ok {
			parts = append(parts, fmt.Sprintf("r%d = %q", register, value))
		}
	}
	text := fmt.Sprintf("%s on node %d", strings.Join(parts, ", "), what.Node)
	if what.Open {
		text += " (outcome unknown)"
	}
	return text
}

func check(one history, timeout time.Duration, pictures string) (verdict, error) {
	var end int64
	for _, each := range one.Operations {
		end = max(end, each.Call, each.Return)
	}
	var operations []porcupine.Operation
	for _, each := range one.Operations {
		if each.Open {
			each.Return = end + 1
		}
		operations = append(operations, porcupine.Operation{
			ClientId: each.Client, Input: each, Call: each.Call, Output: nil, Return: each.Return,
		})
	}
	result, info := porcupine.CheckOperationsVerbose(model(), operations, timeout)
	found := verdict{Name: one.Name, Result: string(result)}
	if result == porcupine.Ok {
		return found, nil
	}
	var faults []porcupine.Annotation
	for _, each := range one.Faults {
		faults = append(faults, porcupine.Annotation{
			Tag: "faults", Start: each.Start, End: each.End, Description: each.Name,
		})
	}
	info.AddAnnotations(faults)
	found.Picture = filepath.Join(pictures, one.Name+".html")
	return found, porcupine.VisualizePath(model(), info, found.Picture)
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	timeout := time.Duration(asked.TimeoutMs) * time.Millisecond
	verdicts := []verdict{}
	for _, one := range asked.Histories {
		found, err := check(one, timeout, asked.Pictures)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, found)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
