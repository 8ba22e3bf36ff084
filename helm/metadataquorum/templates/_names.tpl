{{- /* Names, and other values of users that must be strings, are written by toYaml. It quotes those that YAML would read
       as a number or boolean, such as the release 7. */ -}}
{{- define "mq.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Name of objects without a namespace: two releases in two namespaces may have the same name. */ -}}
{{- define "mq.clusterName" -}}
{{ .Release.Namespace }}-{{ include "mq.name" . }}
{{- end }}

{{- define "mq.selectorLabels" -}}
app.kubernetes.io/name: metadataquorum-operator
app.kubernetes.io/instance: {{ .Release.Name | toYaml }}
{{- end }}

{{- /* Without managed-by, which Helm adds, and without the chart's version, so that an upgrade to an equal chart
       changes nothing and the plain manifests are the same. */ -}}
{{- define "mq.labels" -}}
{{ include "mq.selectorLabels" . }}
app.kubernetes.io/part-of: metadataquorum
{{- end }}

{{- define "mq.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "mq.name" .) }}
{{- else -}}
{{ required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "mq.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "mq.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "mq.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "mq.binding" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role | toYaml }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | toYaml }}
    namespace: {{ .namespace | toYaml }}
{{- end }}
