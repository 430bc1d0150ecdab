package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	"github.com/CycloneDX/cyclonedx-go"
)

// module is the path of the program's own module.
const module = "github.com/rules-offload/rules_offload"

// writeSBOM writes the CycloneDX bill of materials of a program into the same directory: the
// modules that Go linked, with their checksums and licences.
func writeSBOM(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	hashes := []cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(data))}}
	self := cyclonedx.Component{
		BOMRef: "pkg:golang/" + module + "@v" + version, Type: cyclonedx.ComponentTypeApplication,
		Name: filepath.Base(program), Version: version, PackageURL: "pkg:golang/" + module + "@v" + version, Hashes: &hashes,
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}
	goVersion := info.GoVersion[len("go"):]
	components := []cyclonedx.Component{{
		BOMRef: "pkg:golang/std@" + goVersion, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: goVersion,
		PackageURL: "pkg:golang/std@" + goVersion, Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "BSD-3-Clause"}}},
	}}
	needed := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		license, err := licenseOf(m.Path, m.Version)
		if err != nil {
			return err
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, cyclonedx.Component{
			BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl,
			Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: license}}},
			Properties: &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}},
		})
		needed = append(needed, purl)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &self}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: self.BOMRef, Dependencies: &needed}}
	var b bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(program+".cdx.json", b.Bytes(), 0o666)
}
