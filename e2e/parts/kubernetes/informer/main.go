// An unmodified client-go informer, to be asked what it knows: for every line on standard input it writes one line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// object is what the test compares with the member's own.
type object struct {
	Annotations     map[string]string `json:"annotations"`
	ResourceVersion string            `json:"resourceVersion"`
	UID             string            `json:"uid"`
}

// state is one answer.
type state struct {
	Synced  bool              `json:"synced"`
	Added   int64             `json:"added"`
	Updated int64             `json:"updated"`
	Deleted int64             `json:"deleted"`
	Errors  []string          `json:"errors"`
	Objects map[string]object `json:"objects"`
}

func main() {
	server := flag.String("server", "", "URL of the Kubernetes API")
	token := flag.String("token", "", "bearer token")
	authority := flag.String("ca-file", "", "certificate authority of the server; empty: the system's")
	resource := flag.String("resource", "v1/configmaps", "version/plural or group/version/plural")
	flag.Parse()

	client, err := dynamic.NewForConfig(&rest.Config{
		Host:            *server,
		BearerToken:     *token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: *authority},
	})
	if err != nil {
		log.Fatal(err)
	}
	// No resync: what the informer knows it has been told.
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(parse(*resource)).Informer()
	var added, updated, deleted atomic.Int64
	errors := make(chan string, 1000)
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		select {
		case errors <- err.Error():
		default:
		}
	}); err != nil {
		log.Fatal(err)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	}); err != nil {
		log.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)

	answers := json.NewEncoder(os.Stdout)
	questions := bufio.NewScanner(os.Stdin)
	told := []string{}
	for questions.Scan() {
		for len(errors) > 0 {
			told = append(told, <-errors)
		}
		answer := state{
			Synced: informer.HasSynced(), Added: added.Load(), Updated: updated.Load(), Deleted: deleted.Load(),
			Errors: told, Objects: map[string]object{},
		}
		for key, value := range contents(informer.GetStore()) {
			answer.Objects[key] = value
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
	close(stop)
	done := make(chan struct{})
	go func() { factory.Shutdown(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func contents(store cache.Store) map[string]object {
	objects := map[string]object{}
	for _, key := range store.ListKeys() {
		value, exists, err := store.GetByKey(key)
		if err != nil || !exists {
			continue
		}
		found, isObject := value.(*unstructured.Unstructured)
		if !isObject {
			continue
		}
		objects[key] = object{found.GetAnnotations(), found.GetResourceVersion(), string(found.GetUID())}
	}
	return objects
}

func parse(text string) schema.GroupVersionResource {
	parts := strings.Split(text, "/")
	switch len(parts) {
	case 2:
		return schema.GroupVersionResource{Version: parts[0], Resource: parts[1]}
	case 3:
		return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	}
	log.Fatalf("-resource %q is neither version/plural nor group/version/plural", text)
	panic("unreachable")
}
