// Package workspaces makes workspaces with many bundles.
package workspaces

import (
	"fmt"
	"strings"
)

// Workspace is a workspace with bundles of small images, so that what is
// measured is the cost of an action and not of its bytes.
type Workspace struct {
	Packages int // each is one BUILD file
	Bundles  int // in each package
	Archs    []string
}

// Count is the number of bundle actions.
func (w Workspace) Count() int { return w.Packages * w.Bundles }

// Files are the BUILD files of the workspace and the image that all bundles
// hold, once for each architecture. No compiler is needed.
func (w Workspace) Files() map[string]string {
	files := map[string]string{
		"BUILD.bazel": `exports_files(["image"])` + "\n",
		"image":       strings.Repeat("device code", 400) + "\n",
	}
	var images strings.Builder
	for _, arch := range w.Archs {
		// A source has one name in a dict, and an image is one file of one target.
		fmt.Fprintf(&images, "    %q: %q,\n", ":image_"+arch, arch)
	}
	for p := range w.Packages {
		var rules strings.Builder
		rules.WriteString(`load("@rules_offload//rules:defs.bzl", "offload_bundle", "offload_images")` + "\n\n")
		for _, arch := range w.Archs {
			fmt.Fprintf(&rules, "alias(name = %q, actual = \"//:image\")\n\n", "image_"+arch)
		}
		fmt.Fprintf(&rules, "offload_images(name = \"images\", srcs = {\n%s})\n\n", images.String())
		fmt.Fprintf(&rules, "[offload_bundle(name = \"fat%%d\" %% i, images = [\":images\"], alignment = 4096 + i) for i in range(%d)]\n", w.Bundles)
		files[fmt.Sprintf("kernels%03d/BUILD.bazel", p)] = rules.String()
	}
	return files
}
