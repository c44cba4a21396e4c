{{/* The volumes of the pod and their mounts. */}}

{{- define "injector.mounts" -}}
{{- $files := ne .Values.tls.mode "self-signed" -}}
{{- if or (include "injector.hasFolder" .) $files .Values.apiServerClient.configMap .Values.extraVolumeMounts -}}
volumeMounts:
  {{- if include "injector.hasFolder" . }}
  - name: revisions
    mountPath: /etc/injector/revisions
    readOnly: true
  {{- end }}
  {{- if $files }}
  - name: tls
    mountPath: /etc/injector/tls
    readOnly: true
  {{- end }}
  {{- if .Values.apiServerClient.configMap }}
  - name: client-ca
    mountPath: /etc/injector/client-ca
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end }}

{{- define "injector.volumes" -}}
{{- $files := ne .Values.tls.mode "self-signed" -}}
{{- if or (include "injector.hasFolder" .) $files .Values.apiServerClient.configMap .Values.extraVolumes -}}
volumes:
  {{- if include "injector.hasFolder" . }}
  - name: revisions
    projected:
      sources:
        - configMap:
            name: {{ include "injector.fullname" . }}-revisions
            items:
              - {key: tags.yaml, path: tags.yaml}
              {{- range $name, $revision := .Values.revisions }}
              - {key: keep, path: {{ $name }}/.keep}
              {{- if $revision.settings }}
              - {key: {{ $name | quote }}, path: {{ $name }}/revision.yaml}
              {{- end }}
              {{- end }}
        {{- /* All are optional: if the ConfigMap of one revision is missing, the injector must still start for the others. */}}
        {{- range $name, $revision := .Values.revisions }}
        {{- $keys := list "config" "values" }}
        {{- if not $revision.meshConfigMap }}{{ $keys = append $keys "mesh" }}{{ end }}
        {{- if not $revision.settings }}{{ $keys = append $keys "revision.yaml" }}{{ end }}
        {{- include "injector.projected" (dict "configMap" $revision.configMap "revision" $name "keys" $keys) | nindent 8 }}
        {{- with $revision.meshConfigMap }}
        {{- include "injector.projected" (dict "configMap" . "revision" $name "keys" (list "mesh")) | nindent 8 }}
        {{- end }}
        {{- end }}
  {{- end }}
  {{- if $files }}
  - name: tls
    secret:
      secretName: {{ include "injector.tlsSecret" . | quote }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.apiServerClient.configMap }}
  - name: client-ca
    configMap:
      name: {{ . | quote }}
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end }}

{{- define "injector.projected" -}}
{{- $revision := .revision -}}
- configMap:
    name: {{ .configMap | quote }}
    optional: true
    items:
      {{- range .keys }}
      - {key: {{ . }}, path: {{ $revision }}/{{ . }}}
      {{- end }}
{{- end }}
