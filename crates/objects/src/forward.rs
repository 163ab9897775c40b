//! [`forward_all_but_put`]: object stores that wrap another one, and execute only puts differently.

/// Implements `ObjectStore`, `Debug` and `Display` for a type with the member `inner`. Its method
/// `put_or_forward` executes puts. Everything else is forwarded to `inner`.
macro_rules! forward_all_but_put {
    ($store:ty) => {
        impl std::fmt::Debug for $store {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.inner.fmt(f)
            }
        }

        impl std::fmt::Display for $store {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.inner.fmt(f)
            }
        }

        #[async_trait::async_trait]
        impl object_store::ObjectStore for $store {
            async fn put_opts(
                &self,
                location: &object_store::path::Path,
                payload: object_store::PutPayload,
                options: object_store::PutOptions,
            ) -> object_store::Result<object_store::PutResult> {
                self.put_or_forward(location, payload, options).await
            }

            async fn put_multipart_opts(
                &self,
                location: &object_store::path::Path,
                options: object_store::PutMultipartOptions,
            ) -> object_store::Result<Box<dyn object_store::MultipartUpload>> {
                self.inner.put_multipart_opts(location, options).await
            }

            async fn get_opts(
                &self,
                location: &object_store::path::Path,
                options: object_store::GetOptions,
            ) -> object_store::Result<object_store::GetResult> {
                self.inner.get_opts(location, options).await
            }

            async fn get_ranges(
                &self,
                location: &object_store::path::Path,
                ranges: &[std::ops::Range<u64>],
            ) -> object_store::Result<Vec<bytes::Bytes>> {
                self.inner.get_ranges(location, ranges).await
            }

            fn delete_stream(
                &self,
                locations: futures::stream::BoxStream<
                    'static,
                    object_store::Result<object_store::path::Path>,
                >,
            ) -> futures::stream::BoxStream<'static, object_store::Result<object_store::path::Path>>
            {
                self.inner.delete_stream(locations)
            }

            fn list(
                &self,
                prefix: Option<&object_store::path::Path>,
            ) -> futures::stream::BoxStream<'static, object_store::Result<object_store::ObjectMeta>>
            {
                self.inner.list(prefix)
            }

            fn list_with_offset(
                &self,
                prefix: Option<&object_store::path::Path>,
                offset: &object_store::path::Path,
            ) -> futures::stream::BoxStream<'static, object_store::Result<object_store::ObjectMeta>>
            {
                self.inner.list_with_offset(prefix, offset)
            }

            async fn list_with_delimiter(
                &self,
                prefix: Option<&object_store::path::Path>,
            ) -> object_store::Result<object_store::ListResult> {
                self.inner.list_with_delimiter(prefix).await
            }

            async fn copy_opts(
                &self,
                from: &object_store::path::Path,
                to: &object_store::path::Path,
                options: object_store::CopyOptions,
            ) -> object_store::Result<()> {
                self.inner.copy_opts(from, to, options).await
            }
        }
    };
}

pub(super) use forward_all_but_put;
