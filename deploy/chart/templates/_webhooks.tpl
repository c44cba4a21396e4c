{{/* The same as the output of `injector webhook generate` and `injector tag generate`; a test compares them. */}}

{{/* The revision of a tag: the one with the largest weight, the first of several. Takes the value of the tag. */}}
{{- define "injector.heaviest" -}}
  {{- $weights := . -}}
  {{- if kindIs "string" . -}}
    {{- . -}}
  {{- else if kindIs "string" .revision -}}
    {{- .revision -}}
  {{- else -}}
    {{- if kindIs "map" .weights }}{{ $weights = .weights }}{{ end -}}
    {{- $best := "" -}}
    {{- $most := -1 -}}
    {{- range $name, $weight := $weights -}}
      {{- if gt (int $weight) $most }}{{ $best = $name }}{{ $most = int $weight }}{{ end -}}
    {{- end -}}
    {{- $best -}}
  {{- end -}}
{{- end }}

{{/* The webhooks to create, as JSON: those of the values, or one for each revision and tag of the values. */}}
{{- define "injector.wantedWebhooks" -}}
  {{- $wanted := list -}}
  {{- if kindIs "slice" .Values.webhooks -}}
    {{- $wanted = .Values.webhooks -}}
  {{- else -}}
    {{- range $name, $_ := .Values.revisions }}{{ $wanted = append $wanted (dict "revision" $name) }}{{ end -}}
    {{- range $name, $_ := .Values.tags }}{{ $wanted = append $wanted (dict "tag" $name) }}{{ end -}}
    {{- if .Values.demo.enabled -}}
      {{- range list "stable" "canary" }}{{ $wanted = append $wanted (dict "revision" . "name" (printf "demo-%s" .)) }}{{ end -}}
    {{- end -}}
  {{- end -}}
  {{- toJson $wanted -}}
{{- end }}

{{/* The webhooks with the computed keys `path`, `object`, `leads` (the revision), `never` and `podFirst`, as JSON. */}}
{{- define "injector.webhooks" -}}
  {{- $wanted := include "injector.wantedWebhooks" . | fromJsonArray -}}
  {{- $suffix := "" -}}
  {{- if ne .Values.fromCluster.istioNamespace "istio-system" }}{{ $suffix = printf "-%s" .Values.fromCluster.istioNamespace }}{{ end -}}
  {{- $served := .Values.revisions -}}
  {{- if .Values.demo.enabled }}{{ $served = dict "stable" true "canary" true }}{{ end -}}
  {{- $known := and $served (not (include "injector.fromCluster" .)) -}}
  {{- $default := false -}}
  {{- range $wanted }}{{ if eq (default "" .tag) "default" }}{{ $default = true }}{{ end }}{{ end -}}
  {{- $all := list -}}
  {{- range $wanted -}}
    {{- $path := default .revision .tag -}}
    {{- $leads := .revision -}}
    {{- $object := printf "istio-sidecar-injector-%s" $path -}}
    {{- if .tag -}}
      {{- $object = printf "istio-revision-tag-%s" $path -}}
      {{- if hasKey $.Values.tags .tag }}{{ $leads = include "injector.heaviest" (get $.Values.tags .tag) }}{{ end -}}
      {{- if not $leads }}{{ fail (printf "webhooks: nothing says which revision tag %q leads to; give `revision` too, or the tag in `tags`" .tag) }}{{ end -}}
      {{- if and $known (not (hasKey $.Values.tags .tag)) }}{{ fail (printf "webhooks: no tag %q is served; add it to `tags`" .tag) }}{{ end -}}
    {{- else if eq $path "default" -}}
      {{- $object = "istio-sidecar-injector" -}}
    {{- end -}}
    {{- if and $known (not (hasKey $served $leads)) }}{{ fail (printf "webhooks: no revision %q is served; add it to `revisions`" $leads) }}{{ end -}}
    {{- $never := and $default (eq $path "default") (not .tag) -}}
    {{- $all = append $all (merge (dict "path" $path "leads" $leads "object" (default (printf "%s%s" $object $suffix) .name) "never" $never "podFirst" (eq $.Values.revisionLabelPrecedence "pod")) .) -}}
  {{- end -}}
  {{- toJson $all -}}
{{- end }}

{{/* The selectors of Istio's webhooks for one name. Takes the webhook. */}}
{{- define "injector.cases" -}}
- prefix: rev.namespace.
  namespaces:
    - {key: istio.io/rev, operator: In, values: [{{ .path | quote }}]}
    - {key: istio-injection, operator: DoesNotExist}
  pods:
    - {key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}
    {{- if .podFirst }}
    - {key: istio.io/rev, operator: DoesNotExist}
    {{- end }}
- prefix: rev.object.
  namespaces:
    {{- if not .podFirst }}
    - {key: istio.io/rev, operator: DoesNotExist}
    {{- end }}
    - {key: istio-injection, operator: DoesNotExist}
  pods:
    - {key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}
    - {key: istio.io/rev, operator: In, values: [{{ .path | quote }}]}
{{- if eq .path "default" }}
- prefix: namespace.
  namespaces:
    - {key: istio-injection, operator: In, values: [enabled]}
  pods:
    - {key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}
- prefix: object.
  namespaces:
    - {key: istio-injection, operator: DoesNotExist}
    - {key: istio.io/rev, operator: DoesNotExist}
  pods:
    - {key: sidecar.istio.io/inject, operator: In, values: ["true"]}
    - {key: istio.io/rev, operator: DoesNotExist}
{{- if .autoInjectNamespaces }}
- prefix: auto.
  namespaces:
    - {key: istio-injection, operator: DoesNotExist}
    - {key: istio.io/rev, operator: DoesNotExist}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-public, kube-node-lease, local-path-storage]}
  pods:
    - {key: sidecar.istio.io/inject, operator: DoesNotExist}
    - {key: istio.io/rev, operator: DoesNotExist}
{{- end }}
{{- end }}
{{- end }}
