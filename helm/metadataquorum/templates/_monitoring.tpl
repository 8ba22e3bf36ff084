{{- /* Whether to create a resource of the Prometheus operator. auto: if the cluster has its kind. true without the
       kind fails the installation with a message that names what is missing. */ -}}
{{- define "mq.monitoring" -}}
{{- $there := .all.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) }}
{{- if eq (toString .value) "auto" }}{{ if $there }}yes{{ end }}
{{- else if eq (toString .value) "true" }}
{{- if not $there }}{{ fail (printf "this cluster has no %s (monitoring.coreos.com/v1): install the Prometheus operator first, or set metrics.monitors.enabled and metrics.rules.enabled to auto or false. For helm template add --api-versions monitoring.coreos.com/v1/%s" .kind .kind) }}{{ end -}}
yes
{{- end -}}
{{- end }}
