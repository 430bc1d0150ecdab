// Package chromium opens pages in Chromium for tests: it evaluates expressions, presses keys, and
// collects messages and requests of the pages. It uses the DevTools protocol over a pipe.
package chromium

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Program is the name of the browser in Debian's package.
const Program = "chromium"

// patience is the timeout for an answer of the browser, long enough for a busy machine.
const patience = 2 * time.Minute

// Page is a tab of a separate browser.
type Page struct {
	t       testing.TB
	in      io.Writer
	session string

	mu       sync.Mutex
	next     int
	waiting  map[int]chan answer
	loaded   chan struct{}
	console  []string
	requests []string
	ended    error // once the browser has closed its pipe
}

// answer is a message of the browser.
type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts a browser with an empty page of that size in pixels. Without Chromium, the test
// fails.
func Start(t testing.TB, width, height int) *Page {
	t.Helper()
	program, err := exec.LookPath(Program)
	if err != nil {
		t.Fatalf("Chromium is needed (Debian: chromium): %v. Run the tests by `./bazelw test //tests/...` or `tools/offline/run go test ./tests/...`", err)
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--remote-debugging-pipe", "--user-data-dir="+home, fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	cmd.Env = append(os.Environ(), "HOME="+home, "LANG=C.UTF-8")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	p := &Page{t: t, in: in, waiting: map[int]chan answer{}, loaded: make(chan struct{}, 8)}
	go p.read(out)
	t.Cleanup(func() {
		in.Close() // ends the browser
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-done
		}
		out.Close()
	})
	var target struct{ TargetID string }
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil, nil)
	}
	p.Resize(width, height)
	return p
}

// Resize sets the size of the window in pixels.
func (p *Page) Resize(width, height int) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Scheme makes the page prefer light or dark colors.
func (p *Page) Scheme(scheme string) {
	p.t.Helper()
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Open loads a page and waits until it is complete.
func (p *Page) Open(url string) {
	p.t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	var navigated struct{ ErrorText, LoaderID string }
	p.call("Page.navigate", map[string]any{"url": url}, &navigated)
	if navigated.ErrorText != "" {
		p.t.Fatalf("%s: %s", url, navigated.ErrorText)
	}
	if navigated.LoaderID == "" { // only the fragment changes
		return
	}
	select {
	case <-p.loaded:
	case <-time.After(patience):
		p.t.Fatalf("%s does not get complete", url)
	}
}

// Evaluate evaluates an expression, awaits it if it is a promise, and stores its
// value in result.
func (p *Page) Evaluate(expression string, result any) {
	p.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if e := got.ExceptionDetails; e != nil {
		p.t.Fatalf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		p.t.Fatalf("%s: %s: %v", expression, got.Result.Value, err)
	}
}

// Settle waits until the page has drawn its pending changes.
func (p *Page) Settle() {
	p.t.Helper()
	p.Evaluate(`new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done(null))), 150))`, nil)
}

// keyCodes are the codes of keys that have a name.
var keyCodes = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

// Key presses a key with a name, such as Tab or ArrowDown.
func (p *Page) Key(name string) {
	p.t.Helper()
	code, ok := keyCodes[name]
	if !ok {
		p.t.Fatalf("no code for the key %s", name)
	}
	press := map[string]any{"type": "rawKeyDown", "key": name, "code": name, "windowsVirtualKeyCode": code}
	if name == "Enter" {
		press["type"], press["text"] = "keyDown", "\r"
	}
	p.call("Input.dispatchKeyEvent", press, nil)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": code}, nil)
}

// Type types text into the focused element.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// Screenshot returns the visible part of the page as PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var got struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &got)
	png, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return png
}

// Console returns messages of the pages, with exceptions and warnings of the browser.
func (p *Page) Console() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.console...)
}

// Requests returns the addresses that the pages asked for.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.requests...)
}

// call calls a method of the browser.
func (p *Page) call(method string, params, result any) {
	p.t.Helper()
	got := make(chan answer, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[id] = got
	ended := p.ended
	p.mu.Unlock()
	if ended != nil {
		p.t.Fatalf("%s: the browser has ended: %v", method, ended)
	}
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if p.session != "" {
		message["sessionId"] = p.session
	}
	line, err := json.Marshal(message)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, 0)); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	select {
	case a := <-got:
		if a.Error != nil {
			p.t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				p.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(patience):
		p.t.Fatalf("%s: no answer", method)
	}
}

// read reads the messages of the browser until it ends.
func (p *Page) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes(0)
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended = err
			for _, c := range p.waiting {
				select {
				case c <- answer{Error: &struct {
					Message string `json:"message"`
				}{"the browser has ended"}}:
				default:
				}
			}
			return
		}
		var a answer
		if err := json.Unmarshal(line[:len(line)-1], &a); err != nil {
			continue
		}
		p.handle(a)
	}
}

// handle hands an answer to who waits for it, and notes events.
func (p *Page) handle(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.ID != 0 {
		if c := p.waiting[a.ID]; c != nil {
			delete(p.waiting, a.ID)
			c <- a
		}
		return
	}
	switch a.Method {
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default:
		}
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		p.console = append(p.console, string(a.Params))
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		if json.Unmarshal(a.Params, &sent) == nil {
			p.requests = append(p.requests, sent.Request.URL)
		}
	}
}
