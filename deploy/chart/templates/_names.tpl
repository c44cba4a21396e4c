{{/* Names and labels that all objects share. */}}

{{- define "injector.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- end }}

{{- define "injector.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "injector.selectorLabels" -}}
app.kubernetes.io/name: {{ include "injector.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "injector.labels" -}}
{{ include "injector.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The name of a cluster-scoped object. It contains the namespace, because two namespaces can have releases of the same name. */}}
{{- define "injector.clusterName" -}}
{{ include "injector.fullname" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "injector.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "injector.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "injector.image" -}}
{{- with .Values.image -}}
{{ with $.Values.global.imageRegistry }}{{ . }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The Secret with the certificate, for tls.mode cert-manager and files. */}}
{{- define "injector.tlsSecret" -}}
{{- default (printf "%s-tls" (include "injector.fullname" .)) .Values.tls.secretName -}}
{{- end }}

{{- define "injector.serviceHost" -}}
{{ include "injector.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Not empty if the revisions of the cluster are served. */}}
{{- define "injector.fromCluster" -}}
{{- if kindIs "bool" .Values.fromCluster.enabled -}}
{{- if .Values.fromCluster.enabled }}true{{ end -}}
{{- else if not (or .Values.revisions .Values.demo.enabled) -}}true
{{- end -}}
{{- end }}

{{/* Not empty if the injector calls the API server. */}}
{{- define "injector.callsAPI" -}}
{{- if or (include "injector.fromCluster" .) .Values.watchUnserved .Values.watchDrift (eq .Values.tls.mode "self-signed") }}true{{ end -}}
{{- end }}

{{/* Not empty if there is a folder of revisions to mount. */}}
{{- define "injector.hasFolder" -}}
{{- if or .Values.revisions .Values.tags }}true{{ end -}}
{{- end }}

{{- define "injector.podSecurity" -}}
{{- $default := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- merge (deepCopy .Values.podSecurityContext) $default | toYaml -}}
{{- end }}

{{- define "injector.containerSecurity" -}}
{{- $default := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- merge (deepCopy .Values.securityContext) $default | toYaml -}}
{{- end }}
