package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences that the linked modules may have.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// certain is the share of a licence's text that must match.
const certain = 0.9

// licenseOf returns the SPDX identifier of the licence of a module.
func licenseOf(path, version string) (string, error) {
	dir, err := output("go", "-C", "../..", "list", "-m", "-f", "{{.Dir}}", path+"@"+version)
	if err != nil {
		return "", err
	}
	folder := strings.TrimSpace(string(dir))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return "", err
	}
	best, confidence := "", 0.0
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if !strings.HasPrefix(upper, "LICENSE") && !strings.HasPrefix(upper, "LICENCE") && !strings.HasPrefix(upper, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", err
		}
		for _, match := range classifier.Match(text).Matches {
			if match.MatchType == "License" && match.Confidence > confidence {
				best, confidence = match.Name, match.Confidence
			}
		}
	}
	if confidence < certain {
		return "", fmt.Errorf("%s@%s: its licence is not recognised; look at %s", path, version, folder)
	}
	if !slices.Contains(allowed, best) {
		return "", fmt.Errorf("%s@%s: found the licence %s, expected one of %s", path, version, best, strings.Join(allowed, ", "))
	}
	return best, nil
}
