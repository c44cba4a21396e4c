{{/* Checks of values that depend on each other. Each one fails with the value, the reason and the remedy, or renders nothing. */}}

{{/* The seconds of a Go duration, rounded up. */}}
{{- define "injector.seconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- sub ($start | mustDateModify . | mustDateModify "999ms" | unixEpoch | int64) ($start | unixEpoch | int64) -}}
{{- end }}

{{/* Not empty if extraArgs or extraEnv give revisions: files of extraVolumes, or a cluster. */}}
{{- define "injector.hasOwnSource" -}}
{{- range .Values.extraArgs -}}
  {{- if regexMatch "^--(revisions-dir|revisionsDir|injectConfig|injectConfigFile|from-cluster|fromCluster|embedded)(=|$)" . }}true{{ end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
  {{- if has .name (list "INJECTOR_REVISIONS_DIR" "INJECTOR_INJECT_CONFIG" "INJECTOR_FROM_CLUSTER" "INJECTOR_EMBEDDED") }}true{{ end -}}
{{- end -}}
{{- end }}

{{- define "injector.checkSources" -}}
{{- $cluster := include "injector.fromCluster" . -}}
{{- if and .Values.upgrades.enabled (not $cluster) -}}
  {{- fail "upgrades: they need fromCluster.enabled" -}}
{{- end -}}
{{- if and .Values.upgrades.enabled .Values.fromCluster.otherIstioNamespaces -}}
  {{- fail "fromCluster.otherIstioNamespaces: upgrades.enabled needs one Istio namespace; run the upgrades by another release" -}}
{{- end -}}
{{- if and .Values.demo.enabled (or .Values.revisions .Values.tags $cluster) -}}
  {{- fail "demo: it excludes revisions, tags and fromCluster; leave them out" -}}
{{- end -}}
{{- if and .Values.tags (not (or .Values.revisions $cluster (include "injector.hasOwnSource" .))) -}}
  {{- fail "tags: they lead to no revision; give `revisions`, or fromCluster.enabled" -}}
{{- end -}}
{{- if not (or $cluster .Values.revisions .Values.demo.enabled (include "injector.hasOwnSource" .)) -}}
  {{- fail "revisions: there is no source of revisions; set fromCluster.enabled=true for those that Istio installed, or `revisions` for ConfigMaps in the namespace of the release, or demo.enabled=true for the two examples in the image" -}}
{{- end -}}
{{- end }}

{{/* Flags that the chart sets by a value. A second one in extraArgs would win, and the probes, the Service or the roles would not follow. */}}
{{- define "injector.checkFlags" -}}
{{- $values := dict "port" "containerPorts.webhook" "opsPort" "containerPorts.ops" "monitoringPort" "containerPorts.ops" "shutdownDelay" "shutdownDelay" "logFormat" "logFormat" "istioNamespace" "fromCluster.istioNamespace" "upgrades" "upgrades.enabled" "watchUnserved" "watchUnserved" "watchDrift" "watchDrift" "tlsMode" "tls.mode" "caSecret" "tls.caSecretName" "service" "fullnameOverride" -}}
{{- range .Values.extraArgs -}}
  {{- $flag := regexReplaceAll "^--([A-Za-z-]+).*$" . "${1}" -}}
  {{- with get $values ($flag | replace "-" "_" | camelcase | untitle) -}}
    {{- fail (printf "extraArgs: --%s is set by the chart; use the value %s" $flag .) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "injector.checkTimes" -}}
{{- $delay := include "injector.seconds" .Values.shutdownDelay | int -}}
{{- if gt (add $delay 30) (int .Values.terminationGracePeriodSeconds) -}}
  {{- fail (printf "shutdownDelay: a pod is killed after terminationGracePeriodSeconds=%d, before it has answered its last requests; give at least %d: shutdownDelay=%s plus the API server's 30 s" (int .Values.terminationGracePeriodSeconds) (add $delay 30) .Values.shutdownDelay) -}}
{{- end -}}
{{- with .Values.monitoring.serviceMonitor -}}
  {{- if and .scrapeTimeout (gt (include "injector.seconds" .scrapeTimeout | int) (include "injector.seconds" .interval | int)) -}}
    {{- fail (printf "monitoring.serviceMonitor.scrapeTimeout: %s is longer than interval=%s, which Prometheus refuses" .scrapeTimeout .interval) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "injector.checkDeployment" -}}
{{- with .Values.autoscaling -}}
  {{- if .enabled -}}
    {{- if gt (int .minReplicas) (int .maxReplicas) }}{{ fail "autoscaling: minReplicas is more than maxReplicas" }}{{ end -}}
    {{- if not (dig "requests" "cpu" "" $.Values.resources) }}{{ fail "autoscaling: it compares the CPU with resources.requests.cpu, which is not set; set it, or autoscaling.enabled=false" }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- $rolling := dict -}}
{{- if kindIs "map" .Values.strategy.rollingUpdate }}{{ $rolling = .Values.strategy.rollingUpdate }}{{ end -}}
{{- if and (ne (default "" .Values.strategy.type) "Recreate") (has (toString $rolling.maxUnavailable) (list "0" "0%")) (has (toString $rolling.maxSurge) (list "0" "0%")) -}}
  {{- fail "strategy.rollingUpdate: maxUnavailable and maxSurge are both 0, so no pod could be replaced; raise one of them" -}}
{{- end -}}
{{- if eq (int .Values.containerPorts.webhook) (int .Values.containerPorts.ops) }}{{ fail "containerPorts: webhook and ops are the same port" }}{{ end -}}
{{- if eq (int .Values.service.port) (int .Values.service.opsPort) }}{{ fail "service: port and opsPort are the same port" }}{{ end -}}
{{- if and (eq .Values.service.ipFamilyPolicy "SingleStack") (gt (len .Values.service.ipFamilies) 1) }}{{ fail "service: ipFamilyPolicy=SingleStack has one of ipFamilies" }}{{ end -}}
{{- end }}

{{- define "injector.checkCertificates" -}}
{{- if and .Values.apiServerClient.names (not .Values.apiServerClient.configMap) -}}
  {{- fail "apiServerClient.names: without apiServerClient.configMap no client certificate is required; give the ConfigMap with the CA, or leave the names out" -}}
{{- end -}}
{{- with .Values.tls -}}
  {{- if and .caBundle (ne .mode "files") }}{{ fail (printf "tls.caBundle: it is for tls.mode=files, not %s" .mode) }}{{ end -}}
  {{- if and .secretName (eq .mode "self-signed") }}{{ fail "tls.secretName: it is for tls.mode=files and cert-manager; the Secret of self-signed is tls.caSecretName" }}{{ end -}}
  {{- if and .extraWebhookNames (ne .mode "self-signed") }}{{ fail (printf "tls.extraWebhookNames: it is for tls.mode=self-signed; with %s the injector patches no webhook" .mode) }}{{ end -}}
  {{- if and .extraWebhookNames (not .patchWebhooks) }}{{ fail "tls.extraWebhookNames: with tls.patchWebhooks=false the injector patches no webhook" }}{{ end -}}
  {{- if and .certManager.issuerRef (ne .mode "cert-manager") }}{{ fail (printf "tls.certManager.issuerRef: it is for tls.mode=cert-manager, not %s" .mode) }}{{ end -}}
  {{- if and (eq .mode "cert-manager") (ge (include "injector.seconds" .certManager.renewBefore | int) (include "injector.seconds" .certManager.duration | int)) -}}
    {{- fail (printf "tls.certManager: renewBefore=%s is not shorter than duration=%s" .certManager.renewBefore .certManager.duration) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "injector.checkWebhooks" -}}
{{- $names := list -}}
{{- range include "injector.webhooks" . | fromJsonArray -}}
  {{- if has .object $names }}{{ fail (printf "webhooks: two of them are called %q; give one of them another `name`" .object) }}{{ end -}}
  {{- $names = append $names .object -}}
{{- end -}}
{{- end }}
