{{- /* The namespaces that the operator watches, with commas between them; an asterisk: all of them. */ -}}
{{- define "mq.watched" -}}
{{ .Values.watchNamespaces | default (list .Release.Namespace) | join "," }}
{{- end }}

{{- define "mq.everywhere" -}}
{{- if eq (include "mq.watched" .) "*" }}yes{{ end -}}
{{- end }}

{{- /* A release that has watched all namespaces so far is not upgraded to one that leaves quorums alone:
       they would go on serving, and no disk would be replaced any more. Helm looks up with the rights of the person who runs
       it, and ends with an error where one is missing. Without rbac.create that person needs no right on ClusterRoles, nor on
       quorums of other namespaces, and the release has no ClusterRole: then nothing is looked up. */ -}}
{{- define "mq.refuseToAbandon" -}}
{{- if and .Release.IsUpgrade .Values.rbac.create (not (include "mq.everywhere" .)) (.Capabilities.APIVersions.Has "metadataquorum.dev/v1alpha1") }}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (include "mq.clusterName" .) }}
{{- $everywhere := false }}
{{- range (dig "rules" (list) $role) }}
{{- if has "statefulsets" (.resources | default list) }}{{ $everywhere = true }}{{ end }}
{{- end }}
{{- if $everywhere }}
{{- $watched := splitList "," (include "mq.watched" .) }}
{{- $left := list }}
{{- range (dig "items" (list) (lookup "metadataquorum.dev/v1alpha1" "MetadataQuorum" "" "")) }}
{{- if not (has .metadata.namespace $watched) }}{{ $left = append $left .metadata.namespace }}{{ end }}
{{- end }}
{{- if $left }}
{{- fail (printf "this release has run MetadataQuorums in all namespaces, and with these values it would leave those in %s without an operator. Name all namespaces with quorums, watchNamespaces={%s}, or keep all of the cluster, watchNamespaces={*}" ($left | uniq | join ", ") (concat $watched $left | uniq | join ",")) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
